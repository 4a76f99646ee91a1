import { type RefObject, useLayoutEffect, useState } from 'react'

/** Returns how many characters fit into a line of a box with a fixed-width font; `null` while it is off. */
export function useColumns(box: RefObject<HTMLElement | null>, beside: number, isOn: boolean): number | null {
  const [columns, setColumns] = useState<number | null>(null)
  useLayoutEffect(() => {
    const element = box.current
    if (element === null || !isOn) return setColumns(null)
    const measure = () => setColumns(Math.max(20, Math.floor((element.clientWidth - beside) / characterWidth(element))))
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    measure()
    return () => observer.disconnect()
  }, [box, beside, isOn])
  return isOn ? columns : null
}

function characterWidth(element: HTMLElement): number {
  const probe = document.createElement('span')
  probe.className = 'invisible absolute'
  probe.textContent = '0'.repeat(100)
  element.append(probe)
  const { width } = probe.getBoundingClientRect()
  probe.remove()
  return width / 100
}
