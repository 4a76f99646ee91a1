import { Link, Outlet } from '@tanstack/react-router'
import { Boxes, Menu as MenuIcon, Rocket, Settings, Webhook } from 'lucide-react'
import { useState } from 'react'
import { Button } from '../ui/controls/button.tsx'
import { SignedIn } from './current-user.tsx'
import { Connection } from './offline-notice.tsx'
import { ThemeChoice } from './theme-choice.tsx'

const places = [
  { to: '/projects', label: 'Projects', icon: Boxes },
  { to: '/webhooks', label: 'Webhooks', icon: Webhook },
  { to: '/get-started', label: 'Get started', icon: Rocket },
  { to: '/settings', label: 'Settings', icon: Settings },
] as const

/** The frame of every page behind the sign-in: a bar at the side, or a drawer on a phone. */
export function Layout() {
  const [open, setOpen] = useState(false)
  return (
    <div className="min-h-dvh md:grid md:grid-cols-[13.5rem_1fr]">
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50 focus:rounded focus:bg-raised focus:px-3 focus:py-2"
      >
        Skip to the content
      </a>
      <div className="sticky top-0 z-30 border-line border-b bg-panel md:h-dvh md:border-r md:border-b-0">
        <div className="flex h-12 items-center gap-2 px-4">
          <Link to="/projects" className="flex flex-1 items-center gap-2 font-semibold tracking-tight">
            <Mark />
            Fairlead
          </Link>
          <Button
            look="quiet"
            size="icon"
            className="md:hidden"
            aria-label="Menu"
            aria-expanded={open}
            onClick={() => setOpen(!open)}
          >
            <MenuIcon size={18} />
          </Button>
        </div>
        <div
          className={`${open ? 'flex' : 'hidden'} absolute inset-x-0 flex-col gap-4 border-line border-b bg-panel px-2 pb-3 md:static md:flex md:h-[calc(100dvh-3rem)] md:border-b-0`}
        >
          <nav aria-label="Main" className="grid flex-1 content-start gap-0.5">
            {places.map(({ to, label, icon: Icon }) => (
              <Link
                key={to}
                to={to}
                onClick={() => setOpen(false)}
                className="flex items-center gap-2.5 rounded-md px-2 py-1.5 text-muted hover:bg-line/50 hover:text-ink"
                activeProps={{ className: 'bg-accent-soft !text-accent font-medium', 'aria-current': 'page' }}
              >
                <Icon size={16} aria-hidden="true" />
                {label}
              </Link>
            ))}
          </nav>
          <div className="grid grid-cols-[minmax(0,1fr)] gap-3 px-2">
            <SignedIn />
            <div className="flex items-center justify-between gap-3 whitespace-nowrap">
              <ThemeChoice />
              <a href="/docs" className="text-[13px] text-muted hover:text-ink">
                API docs
              </a>
            </div>
          </div>
        </div>
      </div>
      <div className="min-w-0">
        <Connection />
        <Outlet />
      </div>
    </div>
  )
}

export function Mark() {
  return (
    <svg viewBox="0 0 32 32" className="size-6" aria-hidden="true">
      <rect width="32" height="32" rx="8" className="fill-accent" />
      <circle cx="16" cy="16" r="7" fill="none" strokeWidth="3" className="stroke-accent-ink" />
      <path
        d="M3 22c5 0 6-6 13-6s8 6 13 6"
        fill="none"
        strokeWidth="2.5"
        strokeLinecap="round"
        className="stroke-accent-ink"
      />
    </svg>
  )
}
