const bytesPerLine = 16;

const printable = (byte: number): string => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.');

/** Bytes as people look at them: where they are, what they are, and what they would be as text. */
export const hexDump = (bytes: Buffer): string => {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += bytesPerLine) {
    const line = [...bytes.subarray(at, at + bytesPerLine)];
    const hex = line.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    lines.push(
      `${at.toString(16).padStart(6, '0')}  ${hex.padEnd(bytesPerLine * 3 - 1)}  ${line.map(printable).join('')}`,
    );
  }
  return lines.join('\n');
};
