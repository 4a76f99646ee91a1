import type { ComponentProps, ReactNode } from 'react'
import { Spinner } from './spinner.tsx'

const base =
  'inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md border font-medium whitespace-nowrap transition-colors disabled:opacity-50'

const looks = {
  primary: 'border-transparent bg-accent text-accent-ink hover:bg-accent-strong',
  plain: 'border-line bg-panel text-ink hover:border-line-strong',
  quiet: 'border-transparent bg-transparent text-muted hover:bg-line/50 hover:text-ink',
  danger: 'border-bad/40 bg-panel text-bad hover:border-bad hover:bg-bad-soft',
} as const

const sizes = { normal: 'h-8 px-3', small: 'h-7 px-2 text-[13px]', icon: 'size-8' } as const

export interface ButtonLook {
  readonly look?: keyof typeof looks
  readonly size?: keyof typeof sizes
}

/** The classes of a button, for links that look like one. */
export function buttonClass({ look = 'plain', size = 'normal' }: ButtonLook = {}): string {
  return `${base} ${looks[look]} ${sizes[size]}`
}

type Props = ComponentProps<'button'> & ButtonLook & { readonly busy?: boolean; readonly icon?: ReactNode }

/** A button that shows by itself that its work is under way, and takes no second click meanwhile. */
export function Button({ look, size, busy = false, icon, children, className = '', disabled, ...rest }: Props) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      className={`${buttonClass({ ...(look && { look }), ...(size && { size }) })} ${className}`}
    >
      {busy ? <Spinner /> : icon}
      {children}
    </button>
  )
}
