/**
 * Something the person running Millrace has to know and can act on: what happened, and what to do.
 * The command line prints it as one line without a stack; everything else that is thrown is a bug.
 */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';
  readonly remedy: string;
  readonly exitCode: number;

  constructor(message: string, options: { remedy: string; exitCode?: number; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.remedy = options.remedy;
    this.exitCode = options.exitCode ?? 1;
  }

  get line(): string {
    return `${oneLine(this.message)}. ${oneLine(this.remedy)}`;
  }
}

const oneLine = (text: string): string => text.replace(/\s*\n\s*/g, ' ').replace(/[.\s]+$/, '');
