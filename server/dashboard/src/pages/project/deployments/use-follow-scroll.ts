import { type RefObject, useLayoutEffect, useRef } from 'react'
import { useVisibleRows } from '../../../ui/display/visible-rows.ts'

interface FollowScrollOptions {
  readonly box: RefObject<HTMLElement | null>
  readonly rowHeight: number
  /** The number of rows in the box. */
  readonly count: number
  /** The number of the log's first line. It grows when old lines are dropped. */
  readonly first: number
  /** True while the rows are search results. */
  readonly searching: boolean
  readonly following: boolean
  /** Called with `true` when the user scrolls to the end, with `false` when they scroll away from it. */
  readonly onFollow: (following: boolean) => void
}

/** Scrolls a box to its end while following, and otherwise keeps its rows in place. Returns the range of rows to draw. */
export function useFollowScroll(options: FollowScrollOptions): { from: number; to: number; onScroll: () => void } {
  const { box, rowHeight, count, first, searching, following, onFollow } = options
  const { from, to, update } = useVisibleRows(box, rowHeight)
  const previousFirst = useRef(first)
  useLayoutEffect(() => {
    if (box.current === null) return
    const dropped = first - previousFirst.current
    previousFirst.current = first
    if (following) {
      if (count > 0) box.current.scrollTop = box.current.scrollHeight
    } else if (!searching) {
      // Lines dropped at the top must not move the lines that the user reads.
      box.current.scrollTop -= dropped * rowHeight
    }
    update()
  }, [box, rowHeight, following, searching, count, first, update])
  const onScroll = () => {
    if (box.current !== null) {
      const { scrollHeight, scrollTop, clientHeight } = box.current
      onFollow(scrollHeight - scrollTop - clientHeight < 3 * rowHeight)
    }
    update()
  }
  return { from, to, onScroll }
}
