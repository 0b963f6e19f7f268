/** Who sends a request, once its credentials are checked. */
export type Caller =
  | { readonly role: 'operator'; readonly identity: string }
  | { readonly role: 'shopper'; readonly identity: string; readonly userId: string };

/** The same shopper with another key or a fresh token is the same caller: a retry must find its first answer. */
export const shopper = (userId: string): Caller => ({
  role: 'shopper',
  identity: `shopper:${userId}`,
  userId,
});

export const operator = (name: string): Caller => ({ role: 'operator', identity: `operator:${name}` });
