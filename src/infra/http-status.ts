import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';

/** The status a GET is answered with. Without an agent, so that no idle connection stays open afterwards. */
export const httpStatus = (url: string, { timeoutMs }: { timeoutMs: number }): Promise<number> =>
  new Promise((resolve, reject) => {
    const request = url.startsWith('https:') ? requestHttps : requestHttp;
    const signal = AbortSignal.timeout(timeoutMs);
    const call = request(new URL(url), { agent: false, signal }, (response) => {
      response.destroy();
      resolve(response.statusCode ?? 0);
    });
    call.on('error', (error) =>
      reject(signal.aborted ? new Error(`no answer within ${timeoutMs} ms`) : error),
    );
    call.end();
  });
