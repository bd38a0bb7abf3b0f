/** Sends an order to a worker and returns the number it answers with. @throws Error when the worker fails. */
export function askWorker<Order>(worker: Worker, order: Order): Promise<number> {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<number>) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.postMessage(order);
  });
}
