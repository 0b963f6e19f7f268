import type { CheckReport } from './check-schemas.ts';
import type { Finding } from './finding.ts';

/** A report for people: which schema, which field, which rule, what is wrong, how to do it instead. */
export const describeReport = (report: CheckReport): string => {
  const { findings, policy, schemas, releases, pairs, unreleased } = report;
  const counted = `${schemas} schemas, ${releases} released versions, ${pairs} pairs of reader and writer, ${policy}`;
  return [
    ...findings.map(describeFinding),
    ...unreleased.map(
      (name) => `note: ${name} is not released as it is; \`millrace schemas release\` freezes it`,
    ),
    findings.length === 0 ? `ok: ${counted}` : `${findings.length} found: ${counted}`,
  ].join('\n');
};

export const describeFinding = ({
  schema,
  path,
  rule,
  what,
  instead,
  against,
  directions,
}: Finding): string => {
  const place = path === '' ? schema : `${schema}  ${path}`;
  const versions =
    against.length > 0 && directions.length > 0
      ? `  (against released ${against.join(', ')}${sides(directions)})`
      : '';
  return `${place}  ${rule}${versions}\n  ${what}\n  Instead: ${instead}\n`;
};

const sides = (directions: Finding['directions']): string =>
  directions.length === 2
    ? ', both ways'
    : directions[0] === 'backward'
      ? ', reading the old'
      : ', read by the old';
