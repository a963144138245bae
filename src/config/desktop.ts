/** True when a window can be opened from here. */
export function hasDisplay(
  variables: Readonly<Record<string, string | undefined>> = process.env,
): boolean {
  return isAnySet(['DISPLAY', 'WAYLAND_DISPLAY'], variables)
}

/** True when this process belongs to a desktop session, which can show notifications. */
export function hasDesktop(
  variables: Readonly<Record<string, string | undefined>> = process.env,
): boolean {
  return hasDisplay(variables) || isAnySet(['DBUS_SESSION_BUS_ADDRESS'], variables)
}

function isAnySet(
  names: readonly string[],
  variables: Readonly<Record<string, string | undefined>>,
): boolean {
  return names.some((name) => (variables[name] ?? '') !== '')
}
