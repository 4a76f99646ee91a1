import { type RefObject, useCallback, useLayoutEffect, useState } from 'react'

/** Rows drawn beyond each edge, so that fast scrolling shows no gap. */
const overscan = 20

/**
 * Returns the range of rows to draw in a scrolling box whose rows all have the same height: the rows in view and a few
 * more. The caller calls `update` after the box was scrolled or filled.
 */
export function useVisibleRows(box: RefObject<HTMLElement | null>, rowHeight: number) {
  const [view, setView] = useState({ top: 0, rows: 0 })
  const update = useCallback(() => {
    if (box.current === null) return
    const top = Math.floor(box.current.scrollTop / rowHeight)
    const rows = Math.ceil(box.current.clientHeight / rowHeight)
    setView((before) => (before.top === top && before.rows === rows ? before : { top, rows }))
  }, [box, rowHeight])
  useLayoutEffect(() => {
    if (box.current === null) return
    const observer = new ResizeObserver(update)
    observer.observe(box.current)
    return () => observer.disconnect()
  }, [box, update])
  return { from: Math.max(0, view.top - overscan), to: view.top + view.rows + overscan, update }
}
