import { Link, type LinkProps, useLocation } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'

interface TabsProps {
  readonly label: string
  readonly tabs: readonly (Pick<LinkProps, 'to' | 'params' | 'activeOptions'> & { readonly label: string })[]
}

/** Links to the parts of a page, each with a separate URL. */
export function Tabs({ label, tabs }: TabsProps) {
  const path = useLocation({ select: ({ pathname }) => pathname })
  const nav = useRef<HTMLElement>(null)
  // On a phone the tab of the current page may be outside the visible area.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the path determines the current tab.
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
