import { expect } from 'chai';
import { envelopeSchemas } from '../../../src/avro/envelope-schema.ts';
import { encodeHeaders } from '../../../src/kafka/header-block.ts';
import { encodePage } from '../../../src/relay/encode-page.ts';
import { rowsOf } from '../../support/judging-broker.ts';

describe('encoding a page', () => {
  const ports = {
    registry: { idOf: async () => 1, writerType: () => Promise.reject(new Error('not asked')) },
    schemas: {
      find: async (fingerprint: Buffer) => {
        const key = fingerprint.toString('hex');
        const schema = [...envelopeSchemas.values()].find((found) => found.fingerprint === key);
        if (!schema) throw new Error('No such schema');
        return schema;
      },
    },
    physicalTopic: (topic: string) => topic,
    headersOf: () => encodeHeaders({ ce_specversion: '1.0' }),
  };

  /** Whether the record tells of the trace whose flags these are. */
  const tells = async (flags: string): Promise<boolean> => {
    const traceparent = `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-${flags}`;
    const { records } = await encodePage(
      ports,
      rowsOf('a@1').map((row) => ({ ...row, traceparent })),
    );
    return records[0]?.headers?.traceparent === traceparent;
  };

  it('tells of a trace when its sampled flag is set, whatever the other flags are', async () => {
    for (const flags of ['01', '03', '0b', 'ff', '11']) expect(await tells(flags), flags).to.equal(true);
    for (const flags of ['00', '10', '02', 'fe', 'a0']) expect(await tells(flags), flags).to.equal(false);
  });
});
