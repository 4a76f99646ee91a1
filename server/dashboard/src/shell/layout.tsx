import { Link, Outlet, useRouter } from '@tanstack/react-router'
import { Menu as MenuIcon, Search } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { Button } from '../ui/controls/button.tsx'
import { focusHeading } from '../ui/focus.ts'
import { CurrentUser } from './current-user.tsx'
import { LimitNotice } from './limit-notice.tsx'
import { Logo } from './logo.tsx'
import { Navigation } from './navigation.tsx'
import { OfflineNotice } from './offline-notice.tsx'
import { PaletteButtons, usePalette } from './palette/palette-button.tsx'
import { SessionEnded } from './session-ended.tsx'
import { ThemeChoice } from './theme-choice.tsx'

/** The layout of every page for signed-in users: a sidebar, or a menu at the top on a phone. */
export function Layout() {
  const [open, setOpen] = useState(false)
  const { open: openPalette, palette } = usePalette()
  const menuButton = useRef<HTMLButtonElement>(null)
  useFocusAfterNavigation()
  useEffect(() => {
    if (!open) return
    const closeByEscape = ({ key }: KeyboardEvent) => {
      if (key !== 'Escape') return
      setOpen(false)
      menuButton.current?.focus()
    }
    addEventListener('keydown', closeByEscape)
    return () => removeEventListener('keydown', closeByEscape)
  }, [open])
  return (
    <div className="min-h-dvh md:grid md:grid-cols-[13.5rem_1fr]">
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50 focus:rounded focus:bg-raised focus:px-3 focus:py-2"
      >
        Skip to the content
      </a>
      <header className="sticky top-0 z-30 border-line border-b bg-panel md:h-dvh md:border-r md:border-b-0">
        <div className="flex h-12 items-center gap-2 px-4">
          <Link to="/projects" className="flex flex-1 items-center gap-2 font-semibold tracking-tight">
            <Logo />
            Fairlead
          </Link>
          <Button
            variant="quiet"
            size="icon"
            className="md:hidden"
            aria-label="Go to"
            onClick={() => openPalette('all')}
          >
            <Search size={18} />
          </Button>
          <Button
            ref={menuButton}
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
          <PaletteButtons
            onOpen={(what) => {
              setOpen(false)
              openPalette(what)
            }}
          />
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
      </header>
      <div className="min-w-0">
        <section aria-label="Notices">
          <OfflineNotice />
          <LimitNotice />
        </section>
        <Outlet />
      </div>
      {palette}
      <SessionEnded />
    </div>
  )
}

/** Moves the focus to the heading of a new page, because the link that opened it is gone. */
function useFocusAfterNavigation(): void {
  const router = useRouter()
  useEffect(
    () =>
      router.subscribe('onRendered', ({ fromLocation, pathChanged }) => {
        // The first page keeps the focus at its top, where the link to the content is.
        if (fromLocation === undefined || !pathChanged) return
        if (document.activeElement === document.body) focusHeading()
      }),
    [router],
  )
}
