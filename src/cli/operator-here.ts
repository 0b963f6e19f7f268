import { hostname, userInfo } from 'node:os';

/** Who is at the keyboard, for the audit. */
export const operatorHere = (): string => `cli:${userInfo().username}@${hostname()}`;
