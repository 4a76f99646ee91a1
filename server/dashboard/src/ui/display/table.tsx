import { type ReactNode, useDeferredValue } from 'react'

export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => ReactNode
  /** Hides the column on narrow screens. */
  readonly wideOnly?: boolean
  readonly align?: 'right'
}

interface TableProps<Row> {
  readonly label: string
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  readonly columns: readonly Column<Row>[]
  /** Shown instead of the table when there are no rows. */
  readonly empty: ReactNode
}

/** More than a high screen shows. */
const rowsAtOnce = 40

/** A table of resources. On a phone it shows its most important columns only. */
export function Table<Row>({ label, rows: all, keyOf, columns, empty }: TableProps<Row>) {
  // The other rows are made piece by piece, so that the page stays responsive.
  const rows = useDeferredValue(all, all.slice(0, rowsAtOnce))
  if (all.length === 0) return empty
  return (
    <section
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard.
      tabIndex={0}
      aria-label={`${label}, scrollable`}
      className="overflow-x-auto -outline-offset-2"
    >
      <table className="w-full border-collapse" aria-label={label}>
        <thead>
          <tr className="text-[12px] text-muted">
            {columns.map((column) => (
              <th key={column.title} scope="col" className={`${cellClass(column)} font-medium`}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} className="border-line border-t hover:bg-canvas">
              {columns.map((column) => (
                <td key={column.title} className={cellClass(column)}>
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

function cellClass({ wideOnly, align }: Pick<Column<never>, 'wideOnly' | 'align'>): string {
  return `px-2 py-2 first:pl-4 last:pr-4 md:px-4 ${wideOnly ? 'hidden md:table-cell' : ''} ${align === 'right' ? 'text-right' : 'text-left'}`
}
