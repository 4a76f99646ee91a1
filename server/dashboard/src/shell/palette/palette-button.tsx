import { ChevronsUpDown, Search } from 'lucide-react'
import { lazy, Suspense, useEffect, useState } from 'react'
import { loadModule } from '../../data/load-module.ts'
import { Button, buttonClass } from '../../ui/controls/button.tsx'

const Palette = lazy(async () => {
  const { Palette } = await loadModule(() => import('./palette.tsx'))
  return { default: Palette }
})

type Opened = 'all' | 'projects'

/** Returns the function that opens the palette, and the palette while it is open. Ctrl+K opens and closes it. */
export function usePalette() {
  const [opened, setOpened] = useState<Opened>()
  useEffect(() => {
    const toggle = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || event.ctrlKey === event.metaKey || event.altKey || event.shiftKey) return
      // In a terminal, Ctrl+K belongs to its program. An open dialog must be closed first.
      if (event.ctrlKey && event.target instanceof Element && event.target.closest('.xterm') !== null) return
      if (opened === undefined && document.querySelector('[role=dialog]') !== null) return
      event.preventDefault()
      setOpened(opened === undefined ? 'all' : undefined)
    }
    addEventListener('keydown', toggle)
    return () => removeEventListener('keydown', toggle)
  }, [opened])
  const palette = opened !== undefined && (
    <Suspense>
      <Palette projectsOnly={opened === 'projects'} onClose={() => setOpened(undefined)} />
    </Suspense>
  )
  return { open: setOpened, palette }
}

/** The buttons of the menu that open the palette. */
export function PaletteButtons({ onOpen }: { readonly onOpen: (what: Opened) => void }) {
  return (
    <div className="flex gap-1 px-2">
      <button
        type="button"
        onClick={() => onOpen('all')}
        className={`${buttonClass()} min-w-0 flex-1 !justify-start text-muted`}
      >
        <Search size={14} aria-hidden="true" />
        <span className="flex-1 text-left">Go to…</span>
        <kbd className="font-sans text-[12px]">{isApple ? '⌘K' : 'Ctrl K'}</kbd>
      </button>
      <Button size="icon" aria-label="Switch project" title="Switch project" onClick={() => onOpen('projects')}>
        <ChevronsUpDown size={14} aria-hidden="true" />
      </Button>
    </div>
  )
}

const isApple = /^(Mac|iP)/.test(navigator.platform)
