import type { ReactNode } from 'react'

/** The row of buttons at the end of a form or dialog. */
export function ButtonRow({ children }: { readonly children: ReactNode }) {
  return <div className="mt-5 flex flex-wrap justify-end gap-2">{children}</div>
}
