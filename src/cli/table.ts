/** Rows as aligned columns; the first row is the heading. */
export const table = (rows: readonly (readonly string[])[]): string => {
  const widths = rows.reduce<number[]>(
    (found, row) => row.map((cell, column) => Math.max(found[column] ?? 0, cell.length)),
    [],
  );
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
};
