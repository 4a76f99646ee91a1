import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { timestamp } from './fields.ts'

const uploadedFile = z.object({
  id: z.string().describe('`file_…`.'),
  name: z
    .string()
    .describe(
      'The file name of the part, or the text part `name`: without folders, trimmed, at most 255 bytes of UTF-8, without ' +
        'control characters.',
    ),
  url: z.string().describe('The download address. Everybody who knows it can read the file.'),
  size: z.int().nonnegative().describe('In bytes.'),
  uploaded_at: timestamp,
})

export const file = uploadedFile.extend({
  content_type: z
    .string()
    .describe(
      'The media type that the upload declared; if that is not valid, the type that the first bytes suggest, or ' +
        'else `application/octet-stream`.',
    ),
  sha256: z.string().describe('The SHA-256 of the content, in lower-case hexadecimal.'),
})

export const storageOperations = {
  'storage.upload': {
    summary: 'Upload a file',
    description:
      'Accepts `multipart/form-data` with exactly one file part, under any part name. A text part `name` renames the file.',
    response: uploadedFile,
  },
  'storage.list': {
    summary: 'List files',
    description: 'All files of the project, newest first.',
    response: z.object({
      files: z.array(file),
      total: z.int().nonnegative().describe('The number of files on all pages.'),
    }),
  },
  'storage.get': {
    summary: 'Read the metadata of a file',
    description: 'One file. Its content is at its `url`.',
    response: file,
  },
  'storage.delete': {
    summary: 'Delete a file',
    description: 'Removes the file and its download address at once.',
  },
} as const satisfies Declarations<'storage'>
