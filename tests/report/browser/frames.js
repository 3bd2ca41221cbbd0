// Zooms in and out along the wheel's path for a second and a half: the time of every frame, and the tasks of more than
// 50 ms that stood in their way, milliseconds.
() => new Promise((done) => {
  const canvas = document.getElementById("lanes");
  const box = canvas.getBoundingClientRect();
  const where = {clientX: box.left + box.width * 0.6, clientY: box.top + 20};
  const frames = [];
  const long = [];
  new PerformanceObserver((list) => long.push(...list.getEntries().map((e) => e.duration))).observe({type: "longtask"});
  const begin = performance.now();
  let last = begin;
  const frame = (now) => {
    frames.push(now - last);
    last = now;
    if (now - begin > 1500) return done({frames: frames.slice(2), long});
    const deltaY = Math.sin((now - begin) / 240) > 0 ? -90 : 90;
    canvas.dispatchEvent(new WheelEvent("wheel", {deltaY, ctrlKey: true, cancelable: true, ...where}));
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})
