import { ApiError, type ResponseBody } from '@fairlead/server/client'
import { secretHeader, sessionSecret } from './session.ts'

export interface UploadOptions {
  /** Called with the uploaded fraction, from 0 to 1. */
  readonly onProgress: (fraction: number) => void
  readonly signal: AbortSignal
}

/** Uploads a file, with XMLHttpRequest because `fetch` does not report upload progress. */
export function upload(
  projectId: string,
  file: File,
  { onProgress, signal }: UploadOptions,
): Promise<ResponseBody<'storage.upload'>> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('POST', `/dashboard/api/projects/${projectId}/storage/upload`)
    request.setRequestHeader(secretHeader, sessionSecret())
    request.responseType = 'json'
    request.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 0 : loaded / total)
    request.onload = () => {
      if (request.status === 201) return resolve(request.response as ResponseBody<'storage.upload'>)
      const { error } = Object(request.response) as { error?: unknown }
      reject(errorOf(error, request.getResponseHeader('x-request-id') ?? undefined))
    }
    request.onerror = () => reject(new TypeError('the connection was lost'))
    request.onabort = () => reject(signal.reason)
    signal.addEventListener('abort', () => request.abort(), { once: true })
    const body = new FormData()
    body.append('file', file, file.name)
    request.send(body)
  })
}

function errorOf(error: unknown, requestId: string | undefined): ApiError {
  const { code, message, details } = Object(error) as Partial<Pick<ApiError, 'code' | 'message' | 'details'>>
  return new ApiError(code ?? 'server_error', message ?? 'The upload failed.', details ?? {}, requestId)
}
