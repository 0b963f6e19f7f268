/** The `source` of every event, and how servers see this program in their lists of clients. */
export const serviceName = 'millrace';
