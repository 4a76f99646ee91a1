import { Link, Outlet } from '@tanstack/react-router'
import { Menu as MenuIcon } from 'lucide-react'
import { useState } from 'react'
import { Button } from '../ui/controls/button.tsx'
import { CurrentUser } from './current-user.tsx'
import { Logo } from './logo.tsx'
import { Navigation } from './navigation.tsx'
import { OfflineNotice } from './offline-notice.tsx'
import { ThemeChoice } from './theme-choice.tsx'

/** The layout of every page for signed-in users: a sidebar, or a menu at the top on a phone. */
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
            <Logo />
            Fairlead
          </Link>
          <Button
            variant="quiet"
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
          <Navigation onNavigate={() => setOpen(false)} />
          <div className="grid grid-cols-[minmax(0,1fr)] gap-3 px-2">
            <CurrentUser />
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
        <OfflineNotice />
        <Outlet />
      </div>
    </div>
  )
}
