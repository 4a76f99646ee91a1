import { Link, type LinkProps, useLocation } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'

interface TabsProps {
  readonly label: string
  readonly tabs: readonly (Pick<LinkProps, 'to' | 'params' | 'activeOptions'> & { readonly label: string })[]
}

/** The parts of a page, each with an address of its own. */
export function Tabs({ label, tabs }: TabsProps) {
  const path = useLocation({ select: ({ pathname }) => pathname })
  const nav = useRef<HTMLElement>(null)
  // On a phone the tab of this page may lie beyond the edge.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the path says which tab is the current one.
  useEffect(() => {
    nav.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [path])
  return (
    <nav ref={nav} aria-label={label} className="-mb-1 flex gap-1 overflow-x-auto border-line border-b">
      {tabs.map(({ label, ...link }) => (
        <Link
          key={label}
          {...link}
          className="-mb-px whitespace-nowrap border-transparent border-b-2 px-3 py-2 text-muted hover:text-ink"
          activeProps={{ className: '!border-accent !text-ink font-medium', 'aria-current': 'page' }}
        >
          {label}
        </Link>
      ))}
    </nav>
  )
}
