import { ExternalLink } from 'lucide-react'
import type { ReactNode } from 'react'

interface RunLinkProps {
  /** The address in the run's token. */
  readonly url: string | null
  readonly children: ReactNode
}

/** A link to the run of a workflow; only its text without an address of a web page. */
export function RunLink({ url, children }: RunLinkProps) {
  if (url === null || !url.startsWith('https://')) return children
  return (
    <a
      href={url}
      target="_blank"
      rel="noreferrer"
      className="inline-flex items-center gap-1 text-accent hover:underline"
    >
      {children}
      <ExternalLink size={12} aria-hidden="true" />
    </a>
  )
}
