import { Link } from '@tanstack/react-router'
import { Boxes, Rocket, Settings, Webhook } from 'lucide-react'

const entries = [
  { to: '/projects', label: 'Projects', icon: Boxes },
  { to: '/webhooks', label: 'Webhooks', icon: Webhook },
  { to: '/get-started', label: 'Get started', icon: Rocket },
  { to: '/settings', label: 'Settings', icon: Settings },
] as const

/** The main menu. */
export function Navigation({ onNavigate }: { readonly onNavigate: () => void }) {
  return (
    <nav aria-label="Main" className="grid flex-1 content-start gap-0.5">
      {entries.map(({ to, label, icon: Icon }) => (
        <Link
          key={to}
          to={to}
          onClick={onNavigate}
          className="flex items-center gap-2.5 rounded-md px-2 py-1.5 text-muted hover:bg-line/50 hover:text-ink"
          activeProps={{ className: 'bg-accent-soft !text-accent font-medium', 'aria-current': 'page' }}
        >
          <Icon size={16} aria-hidden="true" />
          {label}
        </Link>
      ))}
    </nav>
  )
}
