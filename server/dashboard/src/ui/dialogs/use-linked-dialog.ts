import { useLocation, useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'

/** The fragment of a link that opens the page's dialog for a new item. */
export const newDialog = 'new'

/** Returns the state of a page's dialog, which opens when a link to the page ends with `newDialog`. */
export function useLinkedDialog(): [isOpen: boolean, setOpen: (open: boolean) => void] {
  const [isOpen, setOpen] = useState(false)
  const hash = useLocation({ select: (location) => location.hash })
  const navigate = useNavigate()
  useEffect(() => {
    if (hash !== newDialog) return
    setOpen(true)
    void navigate({ to: '.', replace: true })
  }, [hash, navigate])
  return [isOpen, setOpen]
}
