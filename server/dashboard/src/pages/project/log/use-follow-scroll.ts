import { type RefObject, useLayoutEffect, useRef } from 'react'
import { useVisibleRows } from '../../../ui/display/visible-rows.ts'
import { rowHeight } from './log-rows.tsx'
import type { RowLayout } from './row-layout.ts'

interface FollowScrollOptions {
  readonly box: RefObject<HTMLElement | null>
  readonly layout: RowLayout
  /** The number of the log's first line. It grows when old lines are dropped. */
  readonly first: number
  /** True while only some of the lines are shown. */
  readonly filtering: boolean
  readonly following: boolean
  /** Called with `true` when the user scrolls to the end, with `false` when they scroll away from it. */
  readonly onFollow: (following: boolean) => void
}

/** Scrolls a box to its end while following, and otherwise keeps its rows in place. Returns the range of rows to draw. */
export function useFollowScroll(options: FollowScrollOptions): { from: number; to: number; onScroll: () => void } {
  const { box, layout, first, filtering, following, onFollow } = options
  const { from, to, update } = useVisibleRows(box, rowHeight)
  const previous = useRef({ first, layout })
  useLayoutEffect(() => {
    if (box.current === null) return
    const dropped = previous.current.layout.row(first - previous.current.first)
    previous.current = { first, layout }
    if (following) {
      if (layout.rows > 0) box.current.scrollTop = box.current.scrollHeight
    } else if (!filtering) {
      // Lines dropped at the top must not move the lines that the user reads.
      box.current.scrollTop -= dropped * rowHeight
    }
    update()
  }, [box, following, filtering, layout, first, update])
  const onScroll = () => {
    if (box.current !== null) {
      const { scrollHeight, scrollTop, clientHeight } = box.current
      onFollow(scrollHeight - scrollTop - clientHeight < 3 * rowHeight)
    }
    update()
  }
  return { from, to, onScroll }
}
