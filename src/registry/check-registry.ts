import { subjectOf } from '../avro/envelope-schema.ts';
import type { CompatibilityPolicy } from '../schema-evolution/compatibility-policy.ts';
import type { EventSchema } from '../schema-evolution/event-schemas.ts';
import { type Finding, finding } from '../schema-evolution/finding.ts';
import { refusalReasons } from './incompatible-schema.ts';
import type { RegistryRest } from './registry-rest.ts';

export interface SubjectAnswer {
  readonly subject: string;
  /** `new` where the registry has nothing to compare with. */
  readonly answer: 'compatible' | 'incompatible' | 'new';
}

export interface RegistryReport {
  readonly subjects: readonly SubjectAnswer[];
  readonly findings: readonly Finding[];
}

/** Asks the registry about every schema that this version would register; the level is set first, or it would answer for another. */
export const checkRegistry = async (
  rest: RegistryRest,
  policy: CompatibilityPolicy,
  schemas: readonly EventSchema[],
): Promise<RegistryReport> => {
  const written = schemas.filter(({ isWritten }) => isWritten);
  const reports = await Promise.all(written.map((schema) => checkSubject(rest, policy, schema)));
  return {
    subjects: reports.map(({ subject, answer }) => ({ subject, answer })),
    findings: reports.flatMap(({ findings }) => findings),
  };
};

const checkSubject = async (
  rest: RegistryRest,
  policy: CompatibilityPolicy,
  { topic, fullName, json }: EventSchema,
): Promise<SubjectAnswer & { readonly findings: readonly Finding[] }> => {
  const subject = subjectOf(topic, fullName);
  const registered = await rest.versions(subject);
  if (registered.length === 0) return { subject, answer: 'new', findings: [] };
  await rest.setCompatibility(subject, policy);
  const { compatible, messages } = await rest.judge(subject, json);
  if (compatible) return { subject, answer: 'compatible', findings: [] };
  const reasons = [...refusalReasons({ registered, candidate: json, policy }), ...messages];
  return {
    subject,
    answer: 'incompatible',
    findings: [
      finding({
        schema: fullName,
        path: '',
        rule: 'registry-refuses',
        what: `the registry would not take it under ${subject}: ${reasons.join('; ') || 'it does not say why'}`,
        instead: 'undo what the reasons name; what is registered stays registered',
      }),
    ],
  };
};
