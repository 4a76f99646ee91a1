import { type RefObject, useCallback, useLayoutEffect, useState } from 'react'

/** Rows beyond the edges, so that quick scrolling shows no gap. */
const beyond = 20

/** Which rows of a box that scrolls are to be drawn, when all have one height: only those in sight. */
export function useVisibleRows(box: RefObject<HTMLElement | null>, rowHeight: number) {
  const [view, setView] = useState({ top: 0, rows: 0 })
  /** To be called when the box has scrolled. */
  const look = useCallback(() => {
    if (box.current === null) return
    const top = Math.floor(box.current.scrollTop / rowHeight)
    const rows = Math.ceil(box.current.clientHeight / rowHeight)
    setView((before) => (before.top === top && before.rows === rows ? before : { top, rows }))
  }, [box, rowHeight])
  useLayoutEffect(() => {
    if (box.current === null) return
    const watch = new ResizeObserver(look)
    watch.observe(box.current)
    return () => watch.disconnect()
  }, [box, look])
  return { from: Math.max(0, view.top - beyond), to: view.top + view.rows + beyond, look }
}
