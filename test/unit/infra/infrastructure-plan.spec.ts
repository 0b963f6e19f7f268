import { expect } from 'chai';
import { loadConfig } from '../../../src/config/load-config.ts';
import { planInfrastructure } from '../../../src/infra/infrastructure-plan.ts';
import { OperatorError } from '../../../src/operator-error.ts';

const urls = {
  DATABASE_URL: 'postgres://db.example/app',
  KAFKA_BROKERS: 'kafka.example:9092',
  SCHEMA_REGISTRY_URL: 'http://registry.example',
  REDIS_URL: 'redis://redis.example',
} as const;
type Variable = keyof typeof urls;
const three: Variable[] = ['DATABASE_URL', 'KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL'];

const planFor = (mode: string, given: readonly Variable[]) => {
  const named = Object.fromEntries(given.map((variable) => [variable, urls[variable]]));
  return planInfrastructure(
    loadConfig({ env: { MILLRACE_INFRA: mode, ...named }, envFile: '/dev/null' }).config,
  );
};

/** What gets started: the letters of postgres, kafka, registry and redis (c for cache), or external. */
const summary = (mode: string, given: readonly Variable[]): string => {
  const plan = planFor(mode, given);
  if (plan.kind === 'external') return `external${plan.endpoints.redisUrl ? ' with redis' : ''}`;
  const { postgres, kafka, registry, redis } = plan.needs;
  return `${plan.kind} ${postgres ? 'p' : '-'}${kafka ? 'k' : '-'}${registry ? 'r' : '-'}${redis ? 'c' : '-'}`;
};

describe('planInfrastructure', () => {
  const table: [mode: string, given: Variable[], expected: string][] = [
    ['auto', [], 'embedded pkrc'],
    ['auto', ['REDIS_URL'], 'embedded pkr-'],
    ['auto', ['KAFKA_BROKERS'], 'embedded p-rc'],
    // The embedded registry never goes into the user's database.
    ['auto', ['DATABASE_URL'], 'embedded pkrc'],
    ['auto', ['DATABASE_URL', 'KAFKA_BROKERS'], 'embedded p-rc'],
    ['auto', ['DATABASE_URL', 'SCHEMA_REGISTRY_URL'], 'embedded -k-c'],
    ['auto', ['KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL'], 'embedded p--c'],
    ['auto', three, 'external'],
    ['auto', [...three, 'REDIS_URL'], 'external with redis'],
    ['external', three, 'external'],
    ['external', [...three, 'REDIS_URL'], 'external with redis'],
    ['embedded', [], 'embedded pkrc'],
    ['docker', [], 'docker pkrc'],
    ['docker', ['KAFKA_BROKERS'], 'docker p-rc'],
    ['docker', three, 'external'],
  ];
  for (const [mode, given, expected] of table) {
    it(`${mode} with ${given.join(', ') || 'no URL'} gives ${expected}`, () => {
      expect(summary(mode, given)).to.equal(expected);
    });
  }

  it('external names every URL that is missing in one message', () => {
    expect(() => planFor('external', ['KAFKA_BROKERS']))
      .to.throw(OperatorError)
      .with.property('message')
      .that.matches(/DATABASE_URL and SCHEMA_REGISTRY_URL are not set/)
      .and.does.not.match(/KAFKA_BROKERS/);
  });

  it('embedded refuses a URL beside it and says which', () => {
    expect(() => planFor('embedded', ['REDIS_URL']))
      .to.throw(OperatorError)
      .with.property('message')
      .that.matches(/REDIS_URL is set as well/);
  });
});
