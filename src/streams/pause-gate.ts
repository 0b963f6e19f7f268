import {
  BehaviorSubject,
  distinctUntilChanged,
  filter,
  firstValueFrom,
  fromEvent,
  merge,
  type Observable,
} from 'rxjs';

/** Where a projection is held still until further notice. What was known last holds until somebody says otherwise. */
export class PauseGate {
  readonly #paused: BehaviorSubject<boolean>;

  constructor(isPaused = false) {
    this.#paused = new BehaviorSubject(isPaused);
  }

  get isPaused(): boolean {
    return this.#paused.value;
  }

  /** How it is now, and every change. */
  get changes(): Observable<boolean> {
    return this.#paused.pipe(distinctUntilChanged());
  }

  set(isPaused: boolean): void {
    this.#paused.next(isPaused);
  }

  /** Comes back when the projection may go on, or when it is stopped for good. */
  async opened(stopping: AbortSignal): Promise<void> {
    if (!this.isPaused || stopping.aborted) return;
    await firstValueFrom(
      merge(this.#paused.pipe(filter((isPaused) => !isPaused)), fromEvent(stopping, 'abort')),
    );
  }
}
