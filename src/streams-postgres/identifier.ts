/** Identifiers come from the topologies' own table definitions, never from data; the check keeps it that way. */
export const identifier = (name: string): string => {
  if (!/^[a-z][a-z0-9_]*$/.test(name)) throw new Error(`${name} is not a table or column name`);
  return name;
};
