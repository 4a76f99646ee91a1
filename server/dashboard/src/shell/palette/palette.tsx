import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { Dialog } from 'radix-ui'
import { type KeyboardEvent, useDeferredValue, useEffect, useId, useRef, useState } from 'react'
import { searchQuery } from '../../data/queries.ts'
import { focusHeading } from '../../ui/focus.ts'
import { inputClass } from '../../ui/forms/field.tsx'
import { type Entry, entriesOfPage, entryOf, matching } from './entries.ts'

interface PaletteProps {
  /** True to find only projects. */
  readonly projectsOnly: boolean
  readonly onClose: () => void
}

/** Finds every project, app, database, page and action by a part of its name. */
export function Palette({ projectsOnly, onClose }: PaletteProps) {
  const [text, setText] = useState('')
  const navigate = useNavigate()
  const hasGone = useRef(false)
  const { entries, isSearching } = useEntries(text, projectsOnly)
  const go = ({ path }: Entry) => {
    hasGone.current = true
    onClose()
    const [pathname, hash] = path.split('#')
    void navigate({ to: pathname ?? '/', ...(hash !== undefined && { hash }) }).then(focusHeading)
  }
  return (
    <Dialog.Root open onOpenChange={onClose}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-black/50" />
        <Dialog.Content
          aria-describedby={undefined}
          onCloseAutoFocus={(event) => {
            // The opened page takes the focus.
            if (hasGone.current) event.preventDefault()
          }}
          className="fixed inset-x-2 top-2 z-50 flex max-h-[calc(100dvh-1rem)] flex-col overflow-hidden rounded-xl border border-line bg-raised shadow-2xl sm:inset-x-auto sm:top-[12vh] sm:left-1/2 sm:max-h-[70vh] sm:w-[36rem] sm:-translate-x-1/2"
        >
          <Dialog.Title className="sr-only">{projectsOnly ? 'Switch project' : 'Go to'}</Dialog.Title>
          <Combobox
            label={projectsOnly ? 'Search projects' : 'Search projects, apps, databases, pages and actions'}
            text={text}
            onText={setText}
            entries={entries}
            isSearching={isSearching}
            onChoose={go}
          />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

const pauseMs = 150

/**
 * Returns the entries for a text. Asks the server once, and again for a text only if its first answer was not complete.
 */
function useEntries(text: string, projectsOnly: boolean) {
  const { projectId, appId } = useParams({ strict: false })
  const asked = useSettled(text.trim(), pauseMs)
  const newest = useQuery(searchQuery(''))
  const isPartial = newest.data?.complete === false && asked !== ''
  const found = useQuery({ ...searchQuery(asked), enabled: isPartial, placeholderData: keepPreviousData })
  const { data } = isPartial && found.data !== undefined ? found : newest
  const items = (data?.found ?? []).filter(({ kind }) => {
    if (projectsOnly) return kind === 'project'
    // Each project has a storage, so without a text they would only lengthen the list.
    return kind !== 'storage' || text.trim() !== ''
  })
  const ofPage = projectsOnly ? [] : entriesOfPage({ ...(projectId && { projectId }), ...(appId && { appId }) })
  const own = ofPage.filter(({ group }) => group.startsWith('This'))
  const others = ofPage.filter(({ group }) => !group.startsWith('This'))
  return {
    entries: matching([...own, ...items.map(entryOf), ...others], useDeferredValue(text)),
    isSearching: newest.isPending || (isPartial && found.isFetching) || asked !== text.trim(),
  }
}

/** Returns a value once it has not changed for a while. */
function useSettled(value: string, ms: number): string {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms)
    return () => clearTimeout(timer)
  }, [value, ms])
  return settled
}

interface ComboboxProps {
  readonly label: string
  readonly text: string
  readonly onText: (text: string) => void
  readonly entries: readonly Entry[]
  readonly isSearching: boolean
  readonly onChoose: (entry: Entry) => void
}

/** A field with its matches, of which the arrow keys choose one. */
function Combobox({ label, text, onText, entries, isSearching, onChoose }: ComboboxProps) {
  const id = useId()
  const [chosen, setChosen] = useState(0)
  const active = Math.min(chosen, entries.length - 1)
  const list = useRef<HTMLDivElement>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: the chosen entry is marked in the list.
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' })
  }, [active, entries])
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    const entry = entries[active]
    if (step !== undefined && entries.length > 0) {
      event.preventDefault()
      setChosen((active + step + entries.length) % entries.length)
    } else if (event.key === 'Enter' && entry !== undefined && !event.nativeEvent.isComposing) {
      event.preventDefault()
      onChoose(entry)
    }
  }
  return (
    <>
      <div className="p-3">
        <input
          role="combobox"
          aria-label={label}
          aria-expanded="true"
          aria-controls={`${id}-list`}
          aria-activedescendant={active < 0 ? undefined : `${id}-${active}`}
          aria-autocomplete="list"
          autoComplete="off"
          spellCheck={false}
          maxLength={100}
          placeholder={label}
          className={`${inputClass} !h-10`}
          value={text}
          onChange={({ target }) => {
            onText(target.value)
            setChosen(0)
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <div
        ref={list}
        id={`${id}-list`}
        role="listbox"
        aria-label="Results"
        tabIndex={0}
        className="min-h-0 flex-1 overflow-y-auto border-line border-t p-1.5 -outline-offset-2"
      >
        {entries.map((entry, index) => (
          <Option
            key={`${entry.group} ${entry.path} ${entry.label}`}
            id={`${id}-${index}`}
            entry={entry}
            isFirst={entries[index - 1]?.group !== entry.group}
            isActive={index === active}
            onChoose={() => onChoose(entry)}
          />
        ))}
      </div>
      <output className={entries.length === 0 ? 'px-4 pb-4 text-muted' : 'sr-only'}>
        {entries.length > 0 ? `${entries.length} results` : isSearching ? 'Searching…' : 'Nothing has that name.'}
      </output>
    </>
  )
}

interface OptionProps {
  readonly id: string
  readonly entry: Entry
  /** True for the first entry of its group. */
  readonly isFirst: boolean
  readonly isActive: boolean
  readonly onChoose: () => void
}

function Option({ id, entry, isFirst, isActive, onChoose }: OptionProps) {
  return (
    <>
      {isFirst && (
        <p aria-hidden="true" className="px-2 pt-2 pb-1 font-medium text-[12px] text-muted">
          {entry.group}
        </p>
      )}
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the field above handles the keys. */}
      <div
        id={id}
        role="option"
        tabIndex={-1}
        aria-selected={isActive}
        onClick={onChoose}
        className={`flex cursor-pointer items-baseline gap-3 rounded-md px-2 py-1.5 pointer-coarse:py-2.5 ${isActive ? 'bg-accent-soft text-accent' : 'hover:bg-line/50'}`}
      >
        <span className="min-w-0 truncate">{entry.label}</span>
        <span className="sr-only">, {entry.group}</span>
        {entry.detail !== undefined && <span className="min-w-0 truncate text-[13px] text-muted">{entry.detail}</span>}
      </div>
    </>
  )
}
