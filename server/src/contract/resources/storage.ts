import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { timestamp } from './common.ts'

export const uploadedFile = z.object({
  id: z.string(),
  name: z.string(),
  /** Whoever holds this address may download the file. */
  url: z.string(),
  /** Bytes. */
  size: z.int().nonnegative(),
  uploaded_at: timestamp,
})

export const file = uploadedFile.extend({
  content_type: z.string(),
  /** Of the content, in lower-case hexadecimal. */
  sha256: z.string(),
})

export const storageOperations = {
  'storage.upload': {
    summary: 'Upload a file',
    description:
      'Takes multipart/form-data with exactly one file part, of any part name. A text part `name` gives the file another name.',
    response: uploadedFile,
  },
  'storage.list': {
    summary: 'List files',
    description: 'All files of the project, newest first.',
    response: z.object({ files: z.array(file), total: z.int().nonnegative() }),
  },
  'storage.get': {
    summary: "Read a file's facts",
    description: 'One file; its content is at its `url`.',
    response: file,
  },
  'storage.delete': {
    summary: 'Delete a file',
    description: 'The file and its address are gone at once.',
  },
} as const satisfies Declarations<'storage'>
