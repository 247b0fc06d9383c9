// Sets the colours that a person has chosen, before anything is painted.
{
  let theme = null;
  try { theme = localStorage.getItem('weir-theme'); } catch { /* storage is off: the system's colours */ }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
}
