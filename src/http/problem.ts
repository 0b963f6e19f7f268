/** RFC 9457: every error a client gets looks like this, whatever went wrong. */
export interface Problem {
  readonly type: `urn:millrace:problem:${string}`;
  readonly title: string;
  readonly status: number;
  readonly detail?: string;
}

const problem =
  (name: string, status: number, title: string) =>
  (detail?: string): Problem => ({
    type: `urn:millrace:problem:${name}`,
    title,
    status,
    ...(detail !== undefined && { detail }),
  });

export const problems = {
  invalidRequest: problem('invalid-request', 400, 'The request is not what this path takes'),
  malformedJson: problem('malformed-json', 400, 'The body is not JSON'),
  notFound: problem('not-found', 404, 'There is nothing at this path'),
  productUnknown: problem('product-unknown', 404, 'There is no such product'),
  statisticUnknown: problem('statistic-unknown', 404, 'There is no statistic of this product'),
  productAlreadyRegistered: problem('product-already-registered', 409, 'This product is registered already'),
  bodyTooLarge: problem('body-too-large', 413, 'The body is too large'),
  unsupportedMediaType: problem('unsupported-media-type', 415, 'The body must be application/json'),
  conflict: problem('conflict', 409, 'Too many changes at once; try again'),
  refused: problem('refused', 400, 'The request was refused'),
  internal: problem('internal', 500, 'Something went wrong here; nothing was written'),
} as const;
