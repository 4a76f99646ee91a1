import type { ReactNode } from 'react'
import { Mark } from '../../shell/layout.tsx'

/** The frame of the pages before the sign-in. */
export function Door({
  title,
  lead,
  children,
}: {
  readonly title: string
  readonly lead: ReactNode
  readonly children: ReactNode
}) {
  return (
    <main id="main" className="grid min-h-dvh place-items-center px-4 py-10">
      <div className="w-full max-w-sm">
        <div className="mb-6 flex items-center gap-2 font-semibold text-lg tracking-tight">
          <Mark />
          Fairlead
        </div>
        <div className="rounded-xl border border-line bg-panel p-6">
          <h1 className="font-semibold text-xl tracking-tight">{title}</h1>
          <p className="mb-5 text-muted">{lead}</p>
          {children}
        </div>
      </div>
    </main>
  )
}
