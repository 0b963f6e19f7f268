import {
  flag,
  integer,
  optionalApiKeys,
  optionalSecret,
  optionalText,
  optionalUrl,
  someOf,
  text,
} from './setting.ts';

export const httpSettings = {
  host: text({ variable: 'HOST', fallback: '127.0.0.1', describes: 'Address the HTTP server listens on' }),
  port: integer({
    variable: 'PORT',
    fallback: 8080,
    min: 0,
    max: 65_535,
    describes: 'Port of the HTTP server; 0 takes any free one',
  }),
  bodyBytesMax: integer({
    variable: 'HTTP_BODY_BYTES_MAX',
    fallback: 64 * 1024,
    min: 1024,
    max: 16 * 1024 * 1024,
    describes: 'Largest request body accepted',
  }),
  requestTimeoutMs: integer({
    variable: 'HTTP_REQUEST_TIMEOUT_MS',
    fallback: 15_000,
    min: 100,
    max: 600_000,
    describes: 'Time a client has to send a whole request',
  }),
  requireIfMatch: flag({
    variable: 'HTTP_REQUIRE_IF_MATCH',
    fallback: false,
    describes: 'Whether stock adjustments and steps of orders and payments must say which version they saw',
  }),
} as const;

export const authSettings = {
  apiKeys: optionalApiKeys({
    variable: 'MILLRACE_API_KEYS',
    describes: 'Who may call the API with which key; without any, a key is generated on a loopback HOST',
  }),
  jwtSecret: optionalSecret({
    variable: 'JWT_SECRET',
    bytesMin: 32,
    describes: 'Shared key of HS256 tokens; not together with a key set',
  }),
  jwksUrl: optionalUrl({
    variable: 'JWT_JWKS_URL',
    protocols: ['https:', 'http:'],
    describes: 'Where the public keys of tokens are published',
  }),
  jwksFile: optionalText({
    variable: 'JWT_JWKS_FILE',
    describes: 'File with the public keys of tokens',
  }),
  jwtAlgorithms: someOf({
    variable: 'JWT_ALGORITHMS',
    fallback: ['RS256', 'ES256', 'EdDSA'],
    values: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'],
    describes: 'Signatures accepted with a key set',
  }),
  jwtIssuer: optionalText({ variable: 'JWT_ISSUER', describes: 'Issuer every token must name' }),
  jwtAudience: optionalText({ variable: 'JWT_AUDIENCE', describes: 'Audience every token must name' }),
  jwtClockToleranceSeconds: integer({
    variable: 'JWT_CLOCK_TOLERANCE_SECONDS',
    fallback: 5,
    min: 0,
    max: 300,
    describes: 'How far the clocks of issuer and server may differ',
  }),
} as const;

export const rateLimitsSettings = {
  commandsPerMinute: integer({
    variable: 'RATE_LIMIT_COMMANDS_PER_MINUTE',
    fallback: 600,
    min: 0,
    max: 10_000_000,
    describes: 'Commands a shopper may send to one process, likes and views apart; 0 is no limit',
  }),
  likesAndViewsPerMinute: integer({
    variable: 'RATE_LIMIT_LIKES_AND_VIEWS_PER_MINUTE',
    fallback: 6000,
    min: 0,
    max: 10_000_000,
    describes: 'Likes and views a shopper may send to one process; 0 is no limit',
  }),
  failedLoginsPerMinute: integer({
    variable: 'RATE_LIMIT_FAILED_LOGINS_PER_MINUTE',
    fallback: 60,
    min: 0,
    max: 10_000_000,
    describes: 'Wrong credentials from one address before it has to wait; 0 is no limit',
  }),
} as const;
