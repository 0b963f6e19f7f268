import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder that holds `avro`, `migrations` and `docker-compose.yml`, from `src` as well as from `dist`. */
export const projectRoot = dirname(dirname(fileURLToPath(import.meta.url)));
