import type { ReactNode } from 'react'
import { Logo } from '../../shell/logo.tsx'

interface SignInFrameProps {
  readonly title: string
  readonly lead: ReactNode
  readonly children: ReactNode
}

/** The layout of the pages for visitors who are not signed in. */
export function SignInFrame({ title, lead, children }: SignInFrameProps) {
  return (
    <main id="main" className="grid min-h-dvh place-items-center px-4 py-10">
      <div className="w-full max-w-sm">
        <div className="mb-6 flex items-center gap-2 font-semibold text-lg tracking-tight">
          <Logo />
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
