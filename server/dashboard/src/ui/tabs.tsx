import { Link, type LinkProps } from '@tanstack/react-router'

interface TabsProps {
  readonly label: string
  readonly tabs: readonly (Pick<LinkProps, 'to' | 'params' | 'activeOptions'> & { readonly label: string })[]
}

/** The parts of a page, each with an address of its own. */
export function Tabs({ label, tabs }: TabsProps) {
  return (
    <nav aria-label={label} className="-mb-1 flex gap-1 overflow-x-auto border-line border-b">
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
