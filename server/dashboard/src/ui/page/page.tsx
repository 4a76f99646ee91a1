import { type ReactNode, useEffect } from 'react'

interface PageProps {
  readonly title: string
  readonly lead?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}

/** A page with its only first-level heading, its actions and its content. */
export function Page({ title, lead, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Fairlead`
  }, [title])
  return (
    <main id="main" className="mx-auto w-full max-w-6xl px-4 py-6 sm:px-6">
      <header className="mb-5 flex flex-wrap items-end gap-3">
        <div className="min-w-0 grow basis-72">
          <h1 tabIndex={-1} className="truncate font-semibold text-xl tracking-tight outline-none">
            {title}
          </h1>
          {lead !== undefined && <div className="text-muted">{lead}</div>}
        </div>
        {actions !== undefined && <div className="flex flex-wrap gap-2">{actions}</div>}
      </header>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-5">{children}</div>
    </main>
  )
}

interface PanelProps {
  readonly title?: string
  readonly actions?: ReactNode
  readonly children: ReactNode
  /** Removes the padding, for tables. */
  readonly flush?: boolean
}

/** A section of a page with a border and an optional heading. */
export function Panel({ title, actions, children, flush = false }: PanelProps) {
  return (
    <section className="min-w-0 overflow-hidden rounded-lg border border-line bg-panel" aria-label={title}>
      {title !== undefined && (
        <div className="flex flex-wrap items-center gap-2 border-line border-b px-4 py-2.5">
          <h2 className="wrap-break-word max-w-full flex-1 font-semibold">{title}</h2>
          {actions}
        </div>
      )}
      <div className={flush ? '' : 'p-4'}>{children}</div>
    </section>
  )
}
