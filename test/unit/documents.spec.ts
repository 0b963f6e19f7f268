import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { projectRoot } from '../../src/project-root.ts';

const documents = [
  ...readdirSync(projectRoot).filter((file) => file.endsWith('.md')),
  ...readdirSync(join(projectRoot, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => join('docs', file)),
];

/** Links to places in this repository that are not there. */
const brokenLinks = (document: string, text: string): readonly string[] =>
  [...text.matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)]
    .map(([, target = '']) => target)
    .filter((target) => !existsSync(join(projectRoot, dirname(document), target)))
    .map((target) => `${document}: ${target}`);

describe('documents', () => {
  it('link only to what is there', () => {
    const broken = documents.flatMap((document) =>
      brokenLinks(document, readFileSync(join(projectRoot, document), 'utf8')),
    );
    expect(documents.length).to.be.at.least(8);
    expect(broken).to.deep.equal([]);
  });

  it('would be found out if they did not', () => {
    expect(brokenLinks('docs/x.md', '[a](../README.md) [b](gone.md)')).to.deep.equal(['docs/x.md: gone.md']);
  });
});
