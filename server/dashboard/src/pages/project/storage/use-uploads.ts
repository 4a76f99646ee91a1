import { useQueryClient } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { upload } from '../../../data/upload.ts'

export interface Upload {
  readonly id: number
  readonly file: File
  /** The uploaded fraction, from 0 to 1. */
  readonly progress: number
  /** `null` while the upload is in progress. */
  readonly error: unknown
  /** Cancels the upload. */
  readonly controller: AbortController
}

export interface Uploads {
  /** The uploads that are in progress or have failed. */
  readonly uploads: readonly Upload[]
  readonly start: (file: File) => void
  readonly retry: (upload: Upload) => void
  readonly remove: (id: number) => void
}

/** Uploads files to a project. A canceled upload leaves no trace; a failed one stays until it is retried or removed. */
export function useUploads(projectId: string): Uploads {
  const [uploads, setUploads] = useState<readonly Upload[]>([])
  const nextId = useRef(0)
  const queryClient = useQueryClient()
  const change = (id: number, changes: Partial<Upload>) =>
    setUploads((all) => all.map((each) => (each.id === id ? { ...each, ...changes } : each)))
  const remove = (id: number) => setUploads((all) => all.filter((each) => each.id !== id))
  const run = async (file: File) => {
    const id = nextId.current++
    const controller = new AbortController()
    setUploads((all) => [...all, { id, file, progress: 0, error: null, controller }])
    try {
      await upload(projectId, file, { signal: controller.signal, onProgress: (progress) => change(id, { progress }) })
      remove(id)
    } catch (error) {
      if (controller.signal.aborted) remove(id)
      else change(id, { error })
    }
    // Also after a failure: the file may be stored although the response was lost.
    await queryClient.invalidateQueries({ queryKey: ['projects', projectId] })
  }
  return {
    uploads,
    start: (file) => void run(file),
    retry: ({ id, file }) => {
      remove(id)
      void run(file)
    },
    remove,
  }
}
