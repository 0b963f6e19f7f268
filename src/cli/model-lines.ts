import type { FillStatus } from '../app/fill-status.ts';
import type { PipelineStatus } from '../app/pipeline-status.ts';
import { ago } from './ago.ts';

const number = (value: number): string => value.toLocaleString('en-US');

/** What is told of read models that lack something, or are being filled. */
export const modelLines = (
  { fills, lost }: Pick<PipelineStatus, 'fills' | 'lost'>,
  now: Date,
): readonly string[] => [
  ...lost.map(
    ({ projection, topic, partition, checkpoint, firstOffset, remedy }) =>
      `${projection}: ${number(firstOffset - checkpoint)} records of ${topic}/${partition} are gone that it had not read (checkpoint ${checkpoint}, the topic begins at ${firstOffset}); the partition stands still. ${remedy}`,
  ),
  ...fills.map((fill) => `${fill.projection}: ${fillText(fill, now)}`),
];

const fillText = (
  { projection, liveIsEmpty, build, phase, fraction, startedAt, movedAt }: FillStatus,
  now: Date,
): string => {
  const meanwhile = liveIsEmpty ? '; the read model is empty until then' : '';
  if (build === null)
    return `waits to be filled from the journal, because the topics have lost their beginning${meanwhile}. A projector does it by itself, or: npx millrace rebuild ${projection}`;
  const done = fraction === null ? '' : `, ${Math.floor(fraction * 100)} %`;
  const doing = phase === 'replay' ? `replays the journal${done}` : 'catches up with the topics';
  return `build ${build} ${doing}, begun ${ago(startedAt, now)}, last moved ${ago(movedAt, now)}${meanwhile}`;
};
