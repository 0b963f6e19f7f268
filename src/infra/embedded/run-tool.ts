import { type Launch, type Supervisor, signalGroup } from './supervisor.ts';

export interface Tool extends Omit<Launch, 'output' | 'stopSignal'> {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly onOutput?: (chunk: string) => void;
}

/** The tool ran and failed; what it printed says why. */
export class ToolError extends Error {
  override readonly name = 'ToolError';
  readonly output: string;

  constructor(message: string, output: string) {
    super(message);
    this.output = output;
  }

  /** The line worth showing to a person. */
  get complaint(): string {
    const lines = this.output.split(/[\r\n]+/).filter((line) => line.trim() !== '');
    const line = lines.find((candidate) => /\b(ERROR|FATAL|error|fatal)\b/.test(candidate)) ?? lines.at(-1);
    return line?.trim() ?? this.message;
  }
}

const keptOutputChars = 64 * 1024;

/** Runs a program to its end under the same supervision as the servers. */
export const runTool = async (supervisor: Supervisor, tool: Tool): Promise<string> => {
  tool.signal?.throwIfAborted();
  const child = await supervisor.launch({ ...tool, stopSignal: 'SIGTERM', output: 'pipe' });
  const end = () => child.pid !== undefined && signalGroup(child.pid, 'SIGKILL');
  const timer = setTimeout(end, tool.timeoutMs);
  tool.signal?.addEventListener('abort', end, { once: true });
  let output = '';
  const collect = (chunk: string) => {
    output = (output + chunk).slice(-keptOutputChars);
    tool.onOutput?.(chunk);
  };
  child.stdout?.setEncoding('utf8').on('data', collect);
  child.stderr?.setEncoding('utf8').on('data', collect);
  try {
    await new Promise((resolve) => child.once('close', resolve));
  } finally {
    clearTimeout(timer);
    tool.signal?.removeEventListener('abort', end);
  }
  tool.signal?.throwIfAborted();
  if (child.exitCode === 0) return output;
  const how = child.signalCode ? `signal ${child.signalCode}` : `exit code ${child.exitCode}`;
  throw new ToolError(`${tool.name} failed (${how})`, output);
};
