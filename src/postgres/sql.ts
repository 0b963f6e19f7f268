export { sql } from 'slonik';
