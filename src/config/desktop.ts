/** True when this process belongs to a desktop session, which can show notifications. */
export function hasDesktop(
  variables: Readonly<Record<string, string | undefined>> = process.env,
): boolean {
  const names = ['DISPLAY', 'WAYLAND_DISPLAY', 'DBUS_SESSION_BUS_ADDRESS']
  return names.some((name) => (variables[name] ?? '') !== '')
}
