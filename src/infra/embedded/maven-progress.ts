const unitBytes: Readonly<Record<string, number>> = { B: 1, kB: 1000, MB: 1_000_000, GB: 1_000_000_000 };

/** Adds up what Maven says it has downloaded. Its lines end with a carriage return while a file is under way. */
export class MavenProgress {
  #finishedBytes = 0;
  #underWayBytes = 0;
  #rest = '';

  /** Takes the next piece of output, hands back the bytes downloaded so far. */
  add(chunk: string): number {
    const lines = (this.#rest + chunk).split(/[\r\n]+/);
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#read(line);
    return this.#finishedBytes + this.#underWayBytes;
  }

  #read(line: string): void {
    const finished = /Downloaded\b.*\(([\d.]+) (B|kB|MB|GB)(?: at |\))/.exec(line);
    if (finished) {
      this.#finishedBytes += Number(finished[1]) * (unitBytes[finished[2] ?? ''] ?? 0);
      this.#underWayBytes = 0;
    } else if (line.includes('Progress (')) {
      const counts = [...line.matchAll(/([\d.]+)(?:\/[\d.]+)? (B|kB|MB|GB)\b/g)];
      this.#underWayBytes = counts
        .map(([, amount, unit]) => Number(amount) * (unitBytes[unit ?? ''] ?? 0))
        .reduce((sum, bytes) => sum + bytes, 0);
    }
  }
}
