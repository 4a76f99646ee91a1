/**
 * Ports that debuggers of Node, Java and Python open by default. They answer, but are nothing to serve, and often open
 * before the app's own port.
 */
export const debuggerPorts: ReadonlySet<number> = new Set([9229, 5005, 5678])
