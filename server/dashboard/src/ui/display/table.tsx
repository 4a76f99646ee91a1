import type { ReactNode } from 'react'

export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => ReactNode
  /** Hidden where the screen is narrow. */
  readonly wide?: boolean
  readonly align?: 'right'
}

interface TableProps<Row> {
  readonly label: string
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  readonly columns: readonly Column<Row>[]
}

/** A table of things; on a phone only what matters most is left of it. */
export function Table<Row>({ label, rows, keyOf, columns }: TableProps<Row>) {
  const classOf = (column: Column<Row>) =>
    `px-2 py-2 first:pl-4 last:pr-4 md:px-4 ${column.wide ? 'hidden md:table-cell' : ''} ${column.align === 'right' ? 'text-right' : 'text-left'}`
  return (
    <section
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
      tabIndex={0}
      aria-label={`${label}, scrollable`}
      className="overflow-x-auto -outline-offset-2"
    >
      <table className="w-full border-collapse" aria-label={label}>
        <thead>
          <tr className="text-[12px] text-muted">
            {columns.map((column) => (
              <th key={column.title} scope="col" className={`${classOf(column)} font-medium`}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} className="border-line border-t hover:bg-canvas">
              {columns.map((column) => (
                <td key={column.title} className={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
